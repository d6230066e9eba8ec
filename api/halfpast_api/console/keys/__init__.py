"""Keys, namespaces and the trail in the console: who may come in, who was here."""
