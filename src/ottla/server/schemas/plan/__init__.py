"""What is decided about records that must name a schema. Pure."""
