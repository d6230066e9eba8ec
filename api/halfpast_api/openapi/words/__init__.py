"""What the members of requests and answers mean."""
