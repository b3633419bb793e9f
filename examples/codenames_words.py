"""The words of `codenames.py`, and the clues that its tools list."""

WORDS = """
anchor apple bank bark bear bell bicycle boot bottle bread bridge butter button cactus camel
candle castle cat cello chain cheese chess church clock cloud coin comet compass copper crown
desert diamond doctor dragon drum duck eagle engine feather fence fire flute forest fork fox
garden ghost glass glove grape hammer harbor hat heart honey horse ice island jacket judge
kettle key king ladder lemon letter lion lock magnet map mirror moon mountain mouse needle nest
ocean onion orange organ owl oyster paint palace pearl pencil piano pirate planet plane pocket
potato prince pyramid queen rabbit rain ring river robot rocket rope rose saddle sail salt
satellite saw school sheep ship shoe snake snow soldier spider spoon spring star stone storm
sugar sword table teacher tiger tower train tree trumpet tunnel umbrella violin wave whale
wheel window witch wolf zebra
"""

CLUES = """
animal army art bird box building clothes cold color country cutlery danger drink farm fish
flight fruit game gold height hospital house insect jewel journey kitchen law light machine
magic meal metal money music night plant royal sea sky space sport time tool travel vegetable
vehicle water weather wood write
"""
