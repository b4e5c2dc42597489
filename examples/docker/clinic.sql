-- An invented table for ../compose.yaml.
CREATE TABLE patients (id BIGINT PRIMARY KEY, ward TEXT NOT NULL);
INSERT INTO patients SELECT n, substr('abc', 1 + n % 3, 1) FROM generate_series(1, 300) AS n;
