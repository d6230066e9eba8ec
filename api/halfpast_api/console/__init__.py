"""Pages for people, served by the API itself: no build step, nothing from elsewhere."""
