"""What the jobs have found, for people: tables for a terminal, and one page of HTML that needs nothing else.

results     the jobs' output, read without Spark
tables      tables of it
names       short names of entities
summary     headline figures, and what needs attention
lanes       the states of each entity over time
arithmetic  what the documents say that a pair costs, beside what was metered
page        all of it on one page
"""
