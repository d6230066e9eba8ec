"""What the Spark audits have found, as pages and as a report to keep."""
