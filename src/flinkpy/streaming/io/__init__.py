"""Between the network and the operators: input processing, watermark alignment, record writers."""
