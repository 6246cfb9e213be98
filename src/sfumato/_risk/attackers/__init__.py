"""What somebody learns who knows public columns: named attackers, each without the release and with it.

All of them are held out: what is believed of a person is learned from everybody else. So a column in which everybody is
alone tells nothing, and one that goes with the protected one tells what it tells of people who are not in the table.
"""
