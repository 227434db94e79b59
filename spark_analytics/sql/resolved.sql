-- The time `second` of the scan with its year; null if it is before 1970 or more than a day ahead: the clock was wrong.
-- A time without a year is in the placeholder year. It is moved to the year of the day or, if it would be more than a
-- day ahead, to the year before, by a shift that changes with 29 February.
CASE
    WHEN second BETWEEN 0 AND $latest THEN second
    WHEN second >= $placeholder_end OR second < $january THEN NULL
    WHEN second < $leap_day AND second + $january_shift <= $latest THEN second + $january_shift
    WHEN second < $leap_day THEN second + $january_shift_before
    WHEN second < $march AND second + $leap_day_shift <= $latest THEN second + $leap_day_shift
    WHEN second < $march THEN second + $leap_day_shift_before
    WHEN second + $march_shift <= $latest THEN second + $march_shift
    WHEN second >= $march THEN second + $march_shift_before
END
