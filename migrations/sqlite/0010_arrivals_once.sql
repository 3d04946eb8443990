-- PostgreSQL's alone; see 0009.
SELECT 1;
