-- PostgreSQL's alone: there insertions reach the queue when their transaction commits. Here one
-- connection writes at a time, and its triggers follow each row at once.
SELECT 1;
