package settings

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"urr.guru/scripts/internal/section"
)

// columns is the width of the lists.
const columns = 150

// shared reports whether a setting is defined in pkg, whose settings pkg/README.md lists once.
func (s Setting) shared() bool { return strings.HasPrefix(s.Of, "pkg/") }

// List returns a Markdown list of a service's own settings. It only names the packages of pkg from
// which it has further settings, and the services that it calls.
func List(all []Setting) string {
	var packages, required, optional, own []string
	for _, s := range all {
		switch {
		case s.Peer():
			peers := &required
			if s.optionalPeer() {
				peers = &optional
			}
			*peers = append(*peers, "`"+s.Name+"`")
		case !s.shared():
			own = append(own, s.item())
		case !slices.Contains(packages, s.group()):
			packages = append(packages, s.group())
		}
	}
	list := []string{wrap("- [Settings of pkg](../../pkg/README.md#settings): " + strings.Join(packages, ", ") + ".")}
	if len(required) > 0 {
		list = append(list, wrap("- Services that it calls: "+strings.Join(required, ", ")+"."))
	}
	if len(optional) > 0 {
		list = append(list, wrap("- Services that may be absent: "+strings.Join(optional, ", ")+"."))
	}
	return strings.Join(append(list, own...), "\n") + "\n"
}

// Shared returns a Markdown list of the settings that services have from pkg, by package.
func Shared(services []Service) string {
	items := map[string][]string{}
	var groups []string
	for _, service := range services {
		for _, s := range service.Settings {
			group := s.group()
			if s.Peer() { // all peers have the same settings: one is listed
				s.Name = "X_" + s.Name[strings.Index(s.Name, "_")+1:]
				group += ", for a service X that is called" + map[bool]string{true: " and may be absent"}[s.optionalPeer()]
			}
			switch {
			case !s.shared() || slices.Contains(items[group], s.item()):
				continue
			case items[group] == nil:
				groups = append(groups, group)
			}
			items[group] = append(items[group], s.item())
		}
	}
	var b strings.Builder
	for i, group := range groups {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s:\n\n%s\n", group, strings.Join(items[group], "\n"))
	}
	return b.String()
}

// group names the package of pkg that a setting belongs to.
func (s Setting) group() string {
	folder, _, _ := strings.Cut(strings.TrimPrefix(s.Of, "pkg/"), ".")
	return "`" + folder + "`"
}

// item formats a setting as an item of a Markdown list.
func (s Setting) item() string {
	takes := s.Takes
	switch {
	case s.Required:
		takes += "; required"
	case s.Default != "":
		takes += "; default `" + s.Default + "`"
	}
	return wrap(fmt.Sprintf("- `%s` (%s): %s", s.Name, takes, s.Meaning))
}

// lines matches the longest part of a text that fits in a line.
var lines = regexp.MustCompile(fmt.Sprintf(`(.{1,%d})(?:\s|$)`, columns))

// wrap breaks a text at its spaces; the lines after the first one are indented.
func wrap(text string) string { return strings.TrimSpace(lines.ReplaceAllString(text, "$1\n  ")) }

// Write puts the lists of settings into the READMEs of services and pkg, below the folder of the
// checkout.
func Write(root string, services []Service) error {
	for _, s := range services {
		if err := section.Write(filepath.Join(root, "services", s.Name, "README.md"), "settings", List(s.Settings)); err != nil {
			return err
		}
	}
	return section.Write(filepath.Join(root, "pkg", "README.md"), "settings", Shared(services))
}
