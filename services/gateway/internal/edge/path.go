package edge

import (
	"path"
	"strings"
	"unicode/utf8"

	"urr.guru/pkg/errs"
)

const (
	// Paths that begin with alias are rewritten to begin with canonical, so that one table serves both.
	alias     = "/api"
	canonical = "/api/v1"
)

// CleanPath returns the form of a path in which it is matched and passed on, so that the checks and
// the router read the same path: decoded once (by net/url), without empty and dot segments, without
// a slash at the end, and with /api/v1/… for /api/…. It fails with errs.ErrInvalidRequest for
// control characters and for backslashes, which some programs read as slashes, and with
// errs.ErrInvalidUTF8 for invalid UTF-8.
func CleanPath(decoded string) (string, error) {
	p := decoded
	if !isClean(p) {
		if !utf8.ValidString(p) {
			return "", errs.ErrInvalidUTF8
		}
		if strings.ContainsFunc(p, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\\' }) {
			return "", errs.ErrInvalidRequest.WithFields(errs.Field{Path: "path", Message: "has a character that no path has"})
		}
		p = path.Clean("/" + p)
	}
	if p == alias {
		return canonical, nil
	}
	if rest, ok := strings.CutPrefix(p, alias+"/"); ok && rest != "v1" && !strings.HasPrefix(rest, "v1/") {
		return canonical + "/" + rest, nil
	}
	return p, nil
}

// OwnPath reports whether a browser that is redirected to p stays on this site. The path begins with
// one slash. It has no backslash, which browsers read as a slash, and no empty or dot segment, since
// "/.//host" is the URL "//host". Path, query and fragment have no control character or space, some
// of which browsers remove. The pages have the same rule, ownPath in web/src/lib/page.ts; the cases
// of both are in web/test/return-paths.json.
func OwnPath(p string) bool {
	if strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return false
	}
	if i := strings.IndexAny(p, "?#"); i >= 0 {
		p = p[:i]
	}
	rest, rooted := strings.CutPrefix(p, "/")
	if !rooted || strings.Contains(p, `\`) {
		return false
	}
	segments := strings.Split(rest, "/")
	for i, s := range segments {
		if s == "" && i < len(segments)-1 || isDots(s) {
			return false
		}
	}
	return true
}

// isDots reports whether browsers resolve a segment as "." or "..". (WHATWG URL, "single-dot and
// double-dot URL path segments")
func isDots(segment string) bool {
	s := strings.ReplaceAll(strings.ToLower(segment), "%2e", ".")
	return s == "." || s == ".."
}

// isClean reports whether p needs no cleaning. This is so for nearly all paths: they have printable
// ASCII, no empty or dot segment, and no slash at the end.
func isClean(p string) bool {
	if p == "" || p[0] != '/' {
		return false
	}
	for i := range len(p) {
		c := p[i]
		if c < 0x20 || c >= 0x7f || c == '\\' {
			return false
		}
		if c == '/' && i+1 < len(p) && (p[i+1] == '/' || p[i+1] == '.') {
			return false
		}
	}
	return len(p) == 1 || p[len(p)-1] != '/'
}
