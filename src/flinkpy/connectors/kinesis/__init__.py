"""Amazon Kinesis: data streams as a source and a sink, Firehose as a sink. On the client `boto3`."""
