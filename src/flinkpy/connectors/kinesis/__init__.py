"""The Kinesis connector: reads and writes data streams and writes to Firehose, with the client `boto3`."""
