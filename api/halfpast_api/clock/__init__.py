"""A clock that is moved by hand, so that delayed flows can be tested in no time."""
