"""RPC endpoints and gateways on gRPC: fencing, typed errors, heartbeats, registration."""
