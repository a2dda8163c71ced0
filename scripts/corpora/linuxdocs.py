"""The working part of make-linuxdocs: choose packages, download them, convert what they document.

    linuxdocs.py SIZE OUT_DIR WORK_DIR MIRROR LOCK      (LOCK: a .packages.tsv, or empty)

APT_CONFIG names the private apt configuration that make-linuxdocs has written. All order is by name, so the
same packages give the same bytes. OUT_DIR appears last and whole: everything is made under other names first.
"""
import bz2
import collections
import gzip
import hashlib
import html
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile

Package = collections.namedtuple("Package", "suite component name version size")

SUITES = ("bullseye", "bookworm", "trixie")
COMPONENTS = ("main", "non-free")

# ---------------------------------------------------------------------------------------- which packages
# Patterns over whole package names. Each suite gives its version: three releases, three versions of a manual.
SMALL = r"""
manpages manpages-dev debian-policy debian-faq developers-reference maint-guide doc-debian
bash-doc gawk-doc make-doc tar-doc diffutils-doc flex-doc autoconf-doc
postgresql-doc-1[35] glibc-doc-reference gdb-doc apt-doc util-linux coreutils procps openssl
postfix-doc krb5-doc
"""
MEDIUM = SMALL + r"""
manpages-posix manpages-posix-dev debian-reference-en
zsh-doc git-doc git-man perl-doc bison-doc binutils-doc
gcc-(9|1[0-4])-doc cpp-(9|1[0-4])-doc glibc-doc gmp-doc
postgresql-doc-17 python3\.(9|11|13)-doc sqlite3-doc
dpkg-dev systemd openssh-client libssl-doc libcurl4-doc
emacs-common-non-dfsg r-doc-info r-doc-html guile-[23]\.[02]-doc tcl[89]\.[06]-doc tk[89]\.[06]-doc
exim4-doc-html bind9-doc sendmail-doc ntpsec-doc
"""
LARGE = MEDIUM + r"""
linux-doc-[56]\.\d+ cmake-doc libboost1\.(74|81|83|88)-doc llvm-\d+-doc clang-\d+-doc
ruby[23]\.\d-doc nodejs-doc php-doc python-django-doc python-sqlalchemy-doc twisted-doc
apache2-doc octave-doc maxima-doc gnuplot-doc vim-doc swi-prolog-doc sbcl-doc ffmpeg-doc
shorewall-doc gnome-user-docs sudo mutt nano rsync screen tmux wget curl iptables
groff groff-base man-db info mercurial-common subversion busybox aptitude-doc-en
manpages-de manpages-fr manpages-es openjdk-(11|17|21)-doc libstdc\+\+-(9|1[0-4])-doc
ant-doc groovy-doc gradle-doc icu-doc debmake-doc installation-guide-(amd64|i386|arm64)
ada-reference-manual-20(12|20) libgtk-3-doc libglib2\.0-doc gettext-doc libxml2-doc
keystone-doc octavia-doc nova-doc cinder-doc neutron-doc glance-doc horizon-doc heat-doc
gsl-doc-info pike8\.0-doc jython-doc weka-doc fp-docs-3\.\d\.\d dpdk-doc
"""
MANUALS = {"small": SMALL, "medium": MEDIUM, "large": LARGE}
# Besides the manuals every STEPth small package, for its changelog, licence, README and man pages.
STEP = {"small": 240, "medium": 60, "large": 12}
SMALL_PACKAGE_BYTES = range(4_001, 60_000)


def available_packages(work, mirror):
    """All packages of all suites, sorted."""
    prefix = mirror.split("://", 1)[1].replace("/", "_")
    packages = []
    for suite in SUITES:
        for component in COMPONENTS:
            base = f"{work}/apt/state/lists/{prefix}_dists_{suite}_{component}_binary-amd64_Packages"
            listing = next((base + end for end in ("", ".lz4", ".xz", ".gz") if os.path.exists(base + end)), None)
            if not listing:
                sys.exit(f"make-linuxdocs: no list of the packages of {suite}/{component} from {mirror}; is there a network?")
            command = ["/usr/lib/apt/apt-helper", "cat-file", listing]
            text = subprocess.run(command, check=True, capture_output=True).stdout.decode()
            for paragraph in text.split("\n\n"):
                lines = (line for line in paragraph.split("\n") if line[:1].isalpha() and ": " in line)
                field = dict(line.split(": ", 1) for line in lines)
                if "Package" in field:
                    packages.append(Package(suite, component, field["Package"], field["Version"], int(field["Size"])))
    return sorted(packages)


def small_packages(packages, step):
    """The names of every `step`th small package of the middle suite."""
    names = {
        package.name
        for package in packages
        if package.suite == "bookworm"
        and package.component == "main"
        and package.size in SMALL_PACKAGE_BYTES
        and not package.name.endswith(("-dbg", "-dbgsym", "-dummy"))
    }
    return set(sorted(names)[::step])


def is_newer(version, other):
    return subprocess.run(["dpkg", "--compare-versions", version, "gt", other]).returncode == 0


def chosen_packages(packages, size):
    """The newest version in each suite of each package wanted; a version that two suites share counts once."""
    is_manual = re.compile("(?:" + "|".join(MANUALS[size].split()) + r")\Z").match
    small = small_packages(packages, STEP[size])
    newest = {}
    for package in packages:
        if is_manual(package.name) or package.name in small:
            place = package.suite, package.name
            if place not in newest or is_newer(package.version, newest[place].version):
                newest[place] = package
    once = {}
    for package in sorted(newest.values()):
        once.setdefault((package.name, package.version), package)
    return list(once.values())


def locked_packages(lock):
    with open(lock, encoding="utf-8") as rows:
        next(rows)
        return [Package(suite, "", name, version, 0) for suite, name, version, *_ in (row.split("\t") for row in rows)]


# ---------------------------------------------------------------------------------------------- download
def deb_file(debs, package):
    """The downloaded file, or None."""
    start = f"{debs}/{package.name}_{package.version.replace(':', '%3a')}_"
    return next((start + arch for arch in ("all.deb", "amd64.deb") if os.path.exists(start + arch)), None)


def fetch(debs, *wanted):
    """None, or what apt says went wrong."""
    result = subprocess.run(["apt-get", "-qq", "download", *wanted], cwd=debs, capture_output=True, text=True)
    return result.stderr.strip()[-200:] if result.returncode else None


def download(debs, packages, batch=100):
    missing = [package for package in packages if not deb_file(debs, package)]
    for start in range(0, len(missing), batch):
        part = missing[start : start + batch]
        if fetch(debs, *(f"{package.name}={package.version}" for package in part)):
            fetch_one_by_one(debs, part)  # one bad name fails a batch
        print(f"downloaded {min(start + batch, len(missing))} of {len(missing)} packages", flush=True)


def fetch_one_by_one(debs, packages):
    for package in packages:
        if deb_file(debs, package):
            continue
        if why := fetch(debs, f"{package.name}={package.version}"):
            print(f"{package.name} {package.version}: {why}", flush=True)


# -------------------------------------------------------------------------------------------- conversion
DROPPED = re.compile(r"<(script|style|svg|head|nav|noscript|template)\b.*?</\1\s*>|<!--.*?-->|<[!?][^>]*>", re.S | re.I)
TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.S | re.I)
BLOCK = re.compile(
    r"</?(?:p|div|br|hr|h[1-6]|li|ul|ol|dl|dt|dd|tr|table|pre|blockquote|section|article|header|footer"
    r"|address|form|fieldset|caption|main|aside|figure|body|html|center)\b[^>]*>",
    re.I,
)
CELL_END = re.compile(r"</(?:td|th)\s*>", re.I)
TAG = re.compile(r"</?[A-Za-z][^>]*>")
BLANKS = re.compile(r"[ \t\r\f\v\xa0]+")
EMPTY_LINES = re.compile(r" ?\n[ \n]*\n ?")


def html_to_text(page):
    title = TITLE.search(page)
    text = DROPPED.sub(" ", page)
    text = TAG.sub("", CELL_END.sub(" ", BLOCK.sub("\n", text)))
    text = EMPTY_LINES.sub("\n\n", BLANKS.sub(" ", html.unescape(text)))
    text = "\n".join(line.strip() for line in text.split("\n")).strip()
    if title:
        title = BLANKS.sub(" ", html.unescape(TAG.sub("", title[1]))).replace("\n", " ").strip()
        text = f"{title}\n\n{text}"
    return text + "\n"


ROFF_ESCAPE = re.compile(
    r"\\f(?:\[[^\]]*\]|\(..|.)|\\s[-+]?\d+|\\[&|^/,:%)]|\\c\Z|\\\*(?:\[[^\]]*\]|\(..|.)"
    r"|\\[hvwZ]'[^']*'|\\[mMFkn](?:\[[^\]]*\]|\(..|.)"
)
ROFF_NAMED = re.compile(r"\\(?:\((..)|\[([^\]]*)\])")
ROFF_CHARACTERS = dict(
    pair.split(" ", 1)
    for pair in (
        """aq '|dq "|lq "|rq "|oq '|cq '|em --|en -|bu *|co (C)|ha ^|ti ~|rs \\|mu x|mc u|at @|sh #|Do $|ga `|ul _"""
        "|la <|ra >|-> ->|<- <-|>= >=|<= <=|!= !=|pl +|mi -|eq ="
    ).split("|")
) | {"ba": "|", "bv": "|"}
ROFF_PLAIN = (
    ("\\-", "-"), ("\\e", "\\"), ("\\'", "'"), ("\\ ", " "), ("\\~", " "), ("\\0", " "),
    ("\\.", "."), ("\\`", "`"), ("\\(", ""), ('\\"', ""),
)  # fmt: skip
# Requests that start a paragraph; those of them without words of their own; those that say nothing; macro bodies.
ROFF_BREAK = set("SH SS PP P LP TP IP HP Sh Ss Pp It sp TQ br RS RE Bl El Sp".split())
ROFF_BARE = set("sp br PP P LP TP Pp Bl El Sp TQ".split())
ROFF_SILENT = set(
    "so ie el if de ds nr tr ta nh hy ad na ne in ti ft fi nf EX EE rm rr als am Dd Os Bd Ed ll pl PD UE ME TE TS lf ss"
    " Bk Ek Vb Ve RS RE".split()
)
ROFF_BODY = ("de", "ig", "am", "de1")


def roff_text(line):
    line = ROFF_ESCAPE.sub("", line)
    line = ROFF_NAMED.sub(lambda found: ROFF_CHARACTERS.get(found[1] or found[2], ""), line)
    for escape, plain in ROFF_PLAIN:
        line = line.replace(escape, plain)
    return line


def man_to_text(page):
    """Rough, but the words and their order are those of the page."""
    out, in_body = [], False
    for line in page.split("\n"):
        if in_body:
            in_body = not line.startswith("..")
        elif line[:1] in ".'":  # an empty line as well: it says nothing
            in_body = roff_request(line[1:].lstrip(), out)
        else:
            out.append(roff_text(line))
    return "\n".join(out).strip() + "\n"


def roff_request(request, out):
    """Adds the words of a request to `out`; true if a macro body follows."""
    if request.startswith('\\"') or not request:
        return False
    name, _, arguments = request.partition(" ")
    if name in ROFF_BODY:
        return True
    if name in ROFF_BREAK and out and out[-1] != "":
        out.append("")
    if name in ROFF_SILENT or name in ROFF_BARE:
        return False
    if words := roff_text(arguments).replace('" "', " ").replace('"', "").strip():
        out.append(words)
    if name in ("SH", "SS", "Sh", "Ss"):
        out.append("")
    return False


# ------------------------------------------------------------------------------------------------ choice
ROOTS = tuple(
    f"./usr/share/{name}/" for name in ("doc", "man", "info", "vim", "help/C", "gtk-doc", "javadoc", "doc-base")
)
NOT_TEXT = re.compile(
    r"/(_sources|_static|_images|_modules|examples?|demos?|tests?|images?|locale|i18n|javascript|search)/"
)
NOT_TEXT_NAMES = ("objects.inv", "genindex.html", "search.html", "makefile")
MAN_PAGE = re.compile(r"usr/share/man/(?:.*/)?man[1-9n]/[^/]+\.[1-9n][a-z0-9+]*\Z")
INFO_PAGE = re.compile(r"\.info(-\d+)?\Z")
VIM_PAGE = re.compile(r"usr/share/vim/.*/doc/.*\.txt\Z")
BARE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(?:\.Debian(?:\.[a-z0-9]+)?)?\Z")
HTML_ENDS = (".html", ".htm", ".xhtml")
TEXT_ENDS = tuple(".txt .text .rst .md .markdown .adoc .asciidoc .pod .sgml .texi .org .doc".split())
UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress}
MIN_BYTES, MAX_BYTES = 200, 20_000_000


def is_text_name(path, base):
    low = base.lower()
    return (
        INFO_PAGE.search(low)
        or VIM_PAGE.match(path)
        or (low.endswith(TEXT_ENDS) and "/licenses/" not in low)
        or (BARE_NAME.match(base) and "/doc/" in path)
    )


def to_document(path, data):
    """(path, text) of a file in a package, or None to leave it out."""
    for end, unpack in UNPACK.items():
        if path.endswith(end):
            path, data = path.removesuffix(end), unpack(data)
            break
    if b"\0" in data or not MIN_BYTES <= len(data) <= MAX_BYTES:
        return None
    base = path.rsplit("/", 1)[1]
    is_man, is_html = MAN_PAGE.match(path), base.lower().endswith(HTML_ENDS)
    if not (is_man or is_html or is_text_name(path, base)):
        return None
    if NOT_TEXT.search(path) or base.lower() in NOT_TEXT_NAMES:
        return None
    text = data.decode("utf-8")
    if is_man:
        if text.startswith(".so ") or "\n.so man" in text[:300]:
            return None
        path, text = path + ".txt", man_to_text(text)
    elif is_html:
        if base.endswith(("-source.html", "_source.html", "-members.html")):
            return None
        path, text = path + ".txt", html_to_text(text)
    else:
        text = text.replace("\r\n", "\n")
    return (path, text) if len(text.encode()) > MIN_BYTES else None


def documents(deb):
    """The sorted (path, text) of a package; files that cannot be read as text are left out."""
    found = []
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as unpacking:
        with tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive:
            for member in archive:
                if not member.isreg() or member.size < 60 or not member.name.startswith(ROOTS):
                    continue
                try:
                    document = to_document(member.name[2:], archive.extractfile(member).read())
                except (OSError, EOFError, lzma.LZMAError, ValueError):
                    continue
                if document:
                    found.append((document[0].removeprefix("usr/share/"), document[1]))
    return sorted(found)


# ---------------------------------------------------------------------------------------------- the corpus
def write_package(package, deb, directory, ndjson):
    """Writes the documents of one package; (files, bytes)."""
    last, files, size = None, 0, 0
    for path, text in documents(deb):
        path = f"{package.suite}/{package.name}/{path}"
        if path == last or len(os.path.basename(path).encode()) > 250:
            continue
        last = path
        data = text.encode()
        os.makedirs(os.path.dirname(f"{directory}/{path}"), exist_ok=True)
        with open(f"{directory}/{path}", "wb") as file:
            file.write(data)
        ndjson.write(json.dumps({"id": path, "text": text}, ensure_ascii=False) + "\n")
        files, size = files + 1, size + len(data)
    return files, size


def write_corpus(packages, debs, directory, ndjson, listing):
    listing.write("suite\tpackage\tversion\tfiles\tbytes\tsha256_of_deb\n")
    total_files = total_bytes = 0
    for done, package in enumerate(packages, 1):
        deb = deb_file(debs, package)
        if not deb:
            print(f"left out, could not be had: {package.name} {package.version}")
            continue
        files, size = write_package(package, deb, directory, ndjson)
        with open(deb, "rb") as data:
            digest = hashlib.sha256(data.read()).hexdigest()
        listing.write(f"{package.suite}\t{package.name}\t{package.version}\t{files}\t{size}\t{digest}\n")
        total_files, total_bytes = total_files + files, total_bytes + size
        if done % 200 == 0 or done == len(packages):
            print(f"{done} of {len(packages)} packages: {total_files} files, {total_bytes / 1e6:.0f} MB", flush=True)


# ---------------------------------------------------------------------------------------------- versions
def version_key(path):
    """Equal for the versions of one document: the path without the release and without version numbers."""

    def unnumbered(name):
        return re.sub(r"\d+(\.\d+)*", "N", name)

    _, package, rest = path.split("/", 2)
    *directories, name = rest.split("/")
    if re.match(r"(gcc|cpp|postgresql|python|llvm)", name):
        name = unnumbered(name)
    return "/".join([unnumbered(package), *map(unnumbered, directories), name])


def write_versions(corpus, out):
    """"group TAB file" lines. Most members of a group are near duplicates, some are equal, some were
    rewritten between releases: candidates, not gold."""
    groups = collections.defaultdict(list)
    for directory, _, names in os.walk(corpus):
        for name in names:
            path = os.path.relpath(os.path.join(directory, name), corpus)
            groups[version_key(path)].append(path)
    for number, group in enumerate(sorted(sorted(group) for group in groups.values() if len(group) > 1)):
        for path in group:
            out.write(f"{number}\t{path}\n")


def main(size, out, work, mirror, lock):
    packages = locked_packages(lock) if lock else chosen_packages(available_packages(work, mirror), size)
    print(f"{len(packages)} packages, {sum(package.size for package in packages) / 1e6:.0f} MB", flush=True)
    debs = f"{work}/debs"
    download(debs, packages)
    parts = [".jsonl", ".packages.tsv", ".versions.tsv"]
    shutil.rmtree(f"{out}.tmp", ignore_errors=True)
    os.makedirs(f"{out}.tmp")
    ndjson, listing, versions = (open(f"{out}{part}.tmp", "w", encoding="utf-8") for part in parts)
    with ndjson, listing, versions:
        write_corpus(packages, debs, f"{out}.tmp", ndjson, listing)
        write_versions(f"{out}.tmp", versions)
    for part in [*parts, ""]:
        os.rename(f"{out}{part}.tmp", out + part)


if __name__ == "__main__":
    main(*sys.argv[1:])
