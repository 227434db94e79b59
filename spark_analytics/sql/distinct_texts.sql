-- What Spark classifies of the groups: each text once.
SELECT row_number() OVER () AS number, format, level, text FROM (SELECT DISTINCT format, level, text FROM grouped)
