"""TLS as far as it needs no socket: certificates read, and whose name they carry.

certificate           the subject and the lifetime of an X.509 certificate
distinguished_name    a subject as text, as Java prints it (RFC 2253)
principal_mapping     Kafka's rules that turn such a text into a principal's name
first_bytes           what a peer speaks that does not speak TLS
"""
