"""gRPC made into endpoints and gateways: fencing, typed errors, heartbeats, registration."""
