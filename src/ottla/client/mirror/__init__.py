"""One cluster's topics copied to another, and the offsets of groups with them.

copying         the loop: records of the source and the position in it, in one transaction of the target
target_topics   topics of the target that are like those of the source
translation     offsets of the source as offsets of the target
"""
