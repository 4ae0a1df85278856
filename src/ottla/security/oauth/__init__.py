"""Tokens of an identity provider: signed JSON Web Tokens (RFC 7519), checked by the keys that the provider publishes.

key_set        the keys of a JSON Web Key Set (RFC 7517), and which one a token is signed with
signed_token   the claims of a token whose signature is right
token_claims   whether claims are about now, about this cluster, and about whom
json_text      JSON and base64 from strangers

key_set and signed_token need the extra `ottla[oauth]`, and are imported where OAUTHBEARER is enabled.
"""
