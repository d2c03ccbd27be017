"""What the jobs have found, for people: tables for a terminal, and one page of HTML that needs nothing else.

results    the jobs' output, read without Spark
tables     tables of it
plots      pictures of it, as SVG
page       all of it on one page
"""
