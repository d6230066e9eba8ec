"""RocketMQ 5 clients: the same store, topics and groups, over their gRPC protocol."""
