"""What is kept, in one SQLite file: each part has its port, the tables, and the adapter over them.

    port, sqlite, statements           the records of calls: the way of every call, so compiled once and batched
    archive, sqlite_archive, rows      the same records for those who look at them: pages, sums, texts, purges
    chats, accounts, platform, kept    packages with a port each, over `transactions`
    pseudonyms                         end users as the records know them
    tables, migrations, database       the schema, its versions, and how the file is opened
    datadir, backup                    where it is and who may have it; the file as a copy, and put back

Nothing above this layer knows SQLAlchemy, and only `compose` and verbs without a server name an adapter.
"""
