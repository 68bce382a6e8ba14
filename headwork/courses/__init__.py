"""Courses: a sheet per student, a cohort's marks, and the files of the course systems that teachers have."""
