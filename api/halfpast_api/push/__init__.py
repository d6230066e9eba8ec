"""Push: messages are posted to endpoints (webhooks), signed, retried over hours."""
