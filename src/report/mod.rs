//! Tables, figures and a page from the files under `results/`. Nothing here trains, and the same input gives the same bytes.

pub mod benchmarks;
pub mod error;
pub mod export;
pub mod figure;
pub mod grown;
pub mod number;
pub mod page;
pub mod published;
pub mod read;
pub mod results;
pub mod statistics;
pub mod table;

use crate::files::write_atomically;
use anyhow::Context;
use benchmarks::Benchmarks;
use error::{ReportError, Result};
use export::Exporter;
use figure::Figure;
use page::{Picture, Section};
use published::Published;
use results::TableResults;
use std::path::{Path, PathBuf};
use table::{functions, quality, Table};

/// What to report, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder of results: `<results>/<profile>/<table>/…`.
    pub results: PathBuf,
    /// Folder of figures and pages: `<plots>/<profile>/…`.
    pub plots: PathBuf,
    /// Folder of the paper's figures: `<published>/table<N>.csv`.
    pub published: PathBuf,
    /// Profiles and tables wanted; all when empty.
    pub selection: Vec<Selection>,
}

/// A profile, or one table of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Such as `mini`.
    pub profile: String,
    /// Such as `table2`; all tables for none.
    pub table: Option<String>,
}

/// What was made of one table.
#[derive(Debug, Clone)]
pub struct Made {
    /// Its profile.
    pub profile: String,
    /// The table.
    pub table: Table,
    /// Files written for it: tables, then figures.
    pub files: Vec<PathBuf>,
}

/// Everything that was made.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Tables, by profile and name.
    pub tables: Vec<Made>,
    /// The page of each profile, and that of the benchmarks.
    pub pages: Vec<PathBuf>,
}

/// Reads the results and writes tables, figures and pages.
pub fn report(options: &Options) -> Result<Report> {
    let mut report = Report::default();
    let folders = table_folders(options)?;
    let mut read = Vec::new();
    for (folder, profile) in folders.iter().filter(|(folder, profile)| is_selected(options, folder, profile)) {
        read.push((folder, results::read(folder, profile)?));
    }
    let benchmarks = match is_selected(options, Path::new(""), BENCHMARKS) {
        true => Benchmarks::read(&options.results.join(BENCHMARKS))?,
        false => Benchmarks::default(),
    };
    // All is read before anything is written: a faulty file leaves what was there as it was.
    for (folder, results) in read.iter().filter(|(_, results)| !results.is_empty()) {
        report.tables.push(make(options, folder, results)?);
    }
    let mut profiles: Vec<String> = report.tables.iter().map(|made| made.profile.clone()).collect();
    profiles.dedup();
    make_benchmarks(options, &benchmarks, &mut report)?;
    if report.tables.is_empty() {
        return Err(nothing(options));
    }
    for profile in profiles {
        let sections = folders
            .iter()
            .filter(|f| f.1 == profile)
            .filter_map(|f| section(options, &f.0, &profile))
            .collect::<Vec<_>>();
        let path = options.plots.join(&profile).join("index.html");
        write(&path, page::page(&format!("profile {profile}"), &sections).as_bytes())?;
        report.pages.push(path);
    }
    Ok(report)
}

/// Writes one table and its figures.
fn make(options: &Options, folder: &Path, results: &TableResults) -> Result<Made> {
    let published = Published::read(&options.published, &results.name)?;
    let table = make_table(results, &published);
    let mut files = Vec::new();
    for (path, text) in exported(folder, results, &table) {
        write(&path, text.as_bytes())?;
        files.push(path);
    }
    let plots = options.plots.join(&results.profile).join(&results.name);
    files.extend(draw(&figure::figures(results, &published), &plots)?);
    Ok(Made { profile: results.profile.clone(), table, files })
}

/// A table in every format, with the files that hold them.
fn exported(folder: &Path, results: &TableResults, table: &Table) -> Vec<(PathBuf, String)> {
    let stem = results::table_stem(results);
    let file =
        |exporter: &dyn Exporter| (folder.join(format!("{stem}.{}", exporter.extension())), exporter.export(table));
    export::all().into_iter().map(file).collect()
}

/// The files that [`report`] would write beside the results of one table, without writing them; none without results.
pub fn render(folder: &Path, profile: &str, published: &Path) -> Result<Vec<(PathBuf, String)>> {
    let results = results::read(folder, profile)?;
    if results.is_empty() {
        return Ok(Vec::new());
    }
    let published = Published::read(published, &results.name)?;
    Ok(exported(folder, &results, &make_table(&results, &published)))
}

/// As [`render`], for the folder of benchmarks.
pub fn render_benchmarks(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let benchmarks = Benchmarks::read(folder)?;
    let file = |(table, _): (Table, _)| bench_file(folder, &table);
    Ok(benchmarks.parts().into_iter().map(file).collect())
}

/// The Markdown of a benchmark's table: its CSV is what was measured.
fn bench_file(folder: &Path, table: &Table) -> (PathBuf, String) {
    (folder.join(format!("{}.md", table.name)), export::markdown::Markdown.export(table))
}

/// Writes figures as SVG and PNG into a folder.
fn draw(figures: &[Figure], plots: &Path) -> Result<Vec<PathBuf>> {
    if !figures.is_empty() {
        std::fs::create_dir_all(plots).with_context(|| format!("{}: cannot make this folder", plots.display()))?;
    }
    let mut files = Vec::new();
    for figure in figures {
        files.extend(figure::render::write(&figure.canvas, plots, &figure.stem)?);
    }
    Ok(files)
}

/// Writes the benchmarks' tables, figures and page.
fn make_benchmarks(options: &Options, benchmarks: &Benchmarks, report: &mut Report) -> Result<()> {
    let plots = options.plots.join(BENCHMARKS);
    let mut sections = Vec::new();
    for (table, figures) in benchmarks.parts() {
        let (path, text) = bench_file(&options.results.join(BENCHMARKS), &table);
        write(&path, text.as_bytes())?;
        let mut files = vec![path];
        files.extend(draw(&figures, &plots)?);
        let pictures = figures.into_iter().map(|figure| picture(figure, "")).collect();
        sections.push(Section::Made(table.clone(), pictures));
        report.tables.push(Made { profile: BENCHMARKS.into(), table, files });
    }
    if !sections.is_empty() {
        let path = plots.join("index.html");
        write(&path, page::page("the benchmarks", &sections).as_bytes())?;
        report.pages.push(path);
    }
    Ok(())
}

/// A figure in a folder beside the page.
fn picture(figure: Figure, folder: &str) -> Picture {
    Picture {
        svg: format!("{folder}{}.svg", figure.stem),
        png: format!("{folder}{}.png", figure.stem),
        width: figure.canvas.width,
        height: figure.canvas.height,
        title: figure.canvas.title,
        caption: figure.caption,
    }
}

/// A table's part of the page; figures that were never drawn are left out, and so are tables without results.
fn section(options: &Options, folder: &Path, profile: &str) -> Option<Section> {
    let name = results::name_of(folder);
    let read = results::read(folder, profile).and_then(|r| Ok((Published::read(&options.published, &name)?, r)));
    let (published, results) = match read {
        Ok(read) => read,
        Err(error) => return Some(Section::Broken(name, error.to_string())),
    };
    if results.is_empty() {
        return None;
    }
    let figures = figure::figures(&results, &published).into_iter();
    let pictures = figures.map(|figure| picture(figure, &format!("{name}/")));
    let page_folder = options.plots.join(profile);
    let pictures = pictures.filter(|p| page_folder.join(&p.svg).is_file()).collect();
    Some(Section::Made(make_table(&results, &published), pictures))
}

/// The table of some results.
pub fn make_table(results: &TableResults, published: &Published) -> Table {
    if results.name == "table1" {
        functions::table(results)
    } else {
        quality::table(results, published)
    }
}

/// The folder of benchmarks under the results: it is no profile.
const BENCHMARKS: &str = "bench";

/// All table folders with their profiles, by name; folders that hold neither tables nor columns are somebody else's.
fn table_folders(options: &Options) -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for profile in results::folders(&options.results)? {
        let name = results::name_of(&profile);
        if name == BENCHMARKS {
            continue;
        }
        if results::holds_columns(&profile)? {
            found.push((profile, name));
        } else {
            found.extend(results::folders(&profile)?.into_iter().map(|table| (table, name.clone())));
        }
    }
    Ok(found)
}

fn is_selected(options: &Options, folder: &Path, profile: &str) -> bool {
    let table = results::name_of(folder);
    // Benchmarks have no tables of their own to select.
    let wanted =
        |s: &Selection| s.profile == profile && (profile == BENCHMARKS || s.table.as_ref().is_none_or(|t| *t == table));
    options.selection.is_empty() || options.selection.iter().any(wanted)
}

fn nothing(options: &Options) -> ReportError {
    let results = options.results.display();
    let text = match options.selection.first() {
        None => format!("no results under {results}: `synthesizer run experiments/mini/table2` makes some, and `make reproduce-table1` those of Table 1"),
        Some(Selection { profile, .. }) if profile == BENCHMARKS => {
            format!("no results under {results}/{profile}: `make bench` makes them")
        }
        Some(Selection { profile, table }) => {
            let table = table.as_deref();
            let path = table.map_or(profile.clone(), |t| format!("{profile}/{t}"));
            let target = match table {
                Some(t) if t.starts_with("table") => format!(", or `make reproduce-{t} PROFILE={profile}`"),
                _ => String::new(),
            };
            format!("no results under {results}/{path}: `synthesizer run experiments/{path}` makes them{target}")
        }
    };
    ReportError::Nothing(text)
}

/// Writes a file whole or not at all, with the folders above it.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    Ok(write_atomically(path, bytes)?)
}
