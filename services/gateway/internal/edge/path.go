package edge

import (
	"path"
	"strings"
	"unicode/utf8"

	"urr.guru/pkg/errs"
)

const (
	// alias is rewritten to canonical, so that one table serves both.
	alias     = "/api"
	canonical = "/api/v1"
)

// CleanPath is the one form in which a path is matched and passed on: decoded (net/url has done that, once), without empty and dot
// segments and without a slash at its end, the alias /api/… rewritten to /api/v1/…. A rule that read another form than the router would
// be a way around it. Control characters and backslashes, which some programs read as slashes, are errs.ErrInvalidRequest; bytes that
// are no UTF-8 errs.ErrInvalidUTF8.
func CleanPath(decoded string) (string, error) {
	p := decoded
	if !plain(p) {
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

// plain reports whether p is clean as it is, which nearly all are: printable ASCII, no empty or dot segment, no slash at the end.
func plain(p string) bool {
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
