//! Tables of all rows: one for each experiment, folded unless the topic has no figures.

use super::grid::{COLUMNS, Grid, grids};
use super::markup::escape;
use crate::row::Row;

/// The tables of these rows. Cells and rows are not closed, which HTML allows and which halves them.
pub(crate) fn details(rows: &[&Row], open: bool) -> String {
    let grids = grids(rows.iter().copied());
    let open = if open { " open" } else { "" };
    let values =
        if rows.len() == 1 { "1 value".to_owned() } else { format!("{} values", rows.len()) };
    let mut html = format!("<details{open}><summary>Table: {values}</summary>\n");
    for grid in &grids {
        html += &table(grid);
    }
    html + "</details>\n"
}

fn table(grid: &Grid<'_>) -> String {
    let common = grid.common.iter().map(|(name, value)| format!("{name} {value}"));
    let caption: Vec<String> = std::iter::once(grid.experiment.to_owned()).chain(common).collect();
    let mut html = format!("<p class=\"soft\">{}</p>\n", escape(&caption.join(" · ")));
    html += "<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>";
    for name in grid.params.iter().copied().chain(COLUMNS) {
        html += &format!("<th>{}", escape(name));
    }
    html += "\n<tbody>";
    for line in &grid.lines {
        html += "\n<tr>";
        for cell in line.params.iter().map(String::as_str).chain(line.cells()) {
            html += &format!("<td>{}", escape(cell));
        }
    }
    html + "\n</table></div>\n"
}
