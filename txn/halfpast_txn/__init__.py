"""Transactional messages: half records, outcomes and check-backs."""
