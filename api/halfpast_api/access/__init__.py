"""Who may do what: keys, users, sessions, namespaces, and who did it."""
