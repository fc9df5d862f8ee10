"""A captured turn through today's pipeline: what it came to then, what it comes to now.

captured   the file, checked
run        the engine, fed what the upstream said, at the times at which it said it
answer     what a client puts together of the bytes it got
compare    the two side by side
show       for people
"""
