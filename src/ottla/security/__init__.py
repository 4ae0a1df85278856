"""Who somebody is, and what they may do. Pure: no sockets, no files, no clocks.

principal      on whose behalf a session asks
principal_data a principal as brokers tell it to each other
settings       the security settings of a client (`ottla.Security`)
properties     the same from the properties of Kafka's clients
own_certificates  a broker's certificate as the settings of a client
tls            certificates, and the principals that they are about
token_endpoint where a client gets tokens for OAUTHBEARER
sasl           logins: PLAIN, SCRAM and OAUTHBEARER, client and server side, and who may log in
oauth          tokens of an identity provider: signatures and claims
quota          quotas: which one is in force for a client, and what is left of it
acl            access control lists: rules, the authoriser, the table of checks
"""
