"""Change events of Debezium: files, an HTTP inbox, Kafka."""
