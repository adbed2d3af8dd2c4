"""A Hadoop cluster for tests: HDFS and YARN, whose daemons are processes of this host."""
