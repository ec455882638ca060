//! Records into tables, Markdown, CSV and HTML.
