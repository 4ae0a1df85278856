"""Descriptions of the cluster, read from its metadata image.

acls            DescribeAcls
cluster         Metadata, DescribeCluster, DescribeTopicPartitions
configs         DescribeConfigs, ListConfigResources
reassignments   ListPartitionReassignments
"""
