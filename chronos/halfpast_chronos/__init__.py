"""The Delay Server: timers kept in RocksDB and fired at their due time."""
