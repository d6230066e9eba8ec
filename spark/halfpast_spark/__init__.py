"""Spark audits that read the commit log itself."""
