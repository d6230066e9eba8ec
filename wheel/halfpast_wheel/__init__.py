"""The hierarchical timing wheel: a pure data structure without clock or I/O."""
