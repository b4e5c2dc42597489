-- An invented hospital.
CREATE TABLE patients (
    id integer PRIMARY KEY,
    region text NOT NULL,
    status text NOT NULL,
    age integer
);
INSERT INTO patients
SELECT i, (ARRAY['north', 'south', 'east', 'west'])[1 + i % 4],
       CASE WHEN i % 5 < 2 THEN 'ill' ELSE 'well' END, i % 90
FROM generate_series(1, 2000) AS i;
