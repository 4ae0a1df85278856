"""SASL: who is on the other side of a connection. Each mechanism is a pair of machines, client and server,
that take a token and return the next one; nothing here reads a clock, draws a nonce or sends.

exchange       what all machines have in common: a step, a login, a refusal
mechanisms     the names of the mechanisms, and the machines of both sides for each
plain          PLAIN (RFC 4616)
scram          SCRAM's formulas and credentials (RFC 5802, RFC 7677)
scram_text     SCRAM's messages: attributes read and written
scram_client   the client's side of SCRAM
scram_server   the server's side of SCRAM
oauthbearer    OAUTHBEARER (RFC 7628): tokens of an identity provider
failed_logins  how often logins from an address may fail
delegation_token  logins that users hand on
credentials    who may log in: users of the settings, users of the metadata log
"""
