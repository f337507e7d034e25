"""The API of those who run the server, under /platform/v1: single JSON documents, served by Litestar.

visitor     who asks
asking      what they may; parameters that nobody knows are refused
desk        what the routes work with
shapes      what the documents hold: times in RFC 3339, money with its currency, ids as text, lists as {data, next}
problems    errors, all in one shape
calls       the records, one by one and in pages
usage       their sums, by day (days), model, key ...
filters     which of them, in both
exports     both as CSV or JSON lines, for other programs
routing     models, endpoints, policies, and what a policy would decide
keys        keys, and whoever asks
changes     the log of changes
allowances  what is taken of limits and budgets
erasure     what led to a person, taken out of the records
pages       the OpenAPI document and a page that shows it
app         all of it as one application
"""
