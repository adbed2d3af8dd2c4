"""The DynamoDB connector: writes items of a table, with the client `boto3`."""
