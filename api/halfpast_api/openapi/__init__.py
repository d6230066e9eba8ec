"""The description of the API: OpenAPI 3.1, and the page that shows it."""
