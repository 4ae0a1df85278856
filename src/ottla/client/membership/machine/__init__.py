"""The machine of a group member. Pure.

group_member   states, transitions, and the requests that follow from them
"""
