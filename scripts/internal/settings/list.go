package settings

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"urr.guru/scripts/internal/section"
)

// columns is the most characters in a line of the lists.
const columns = 150

// shared reports whether a setting is defined in pkg; such settings are listed in pkg/README.md.
func (s Setting) shared() bool { return strings.HasPrefix(s.Of, "pkg/") }

// List returns a Markdown list of the settings that a service itself defines. For other settings,
// it has only their packages in pkg, and the addresses of called services.
func List(settings []Setting) string {
	var packages, required, optional, items []string
	for _, s := range settings {
		switch {
		case s.IsPeer():
			peers := &required
			if s.optionalPeer() {
				peers = &optional
			}
			*peers = append(*peers, "`"+s.Name+"`")
		case !s.shared():
			items = append(items, s.item())
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
	return strings.Join(append(list, items...), "\n") + "\n"
}

// Shared returns a Markdown list of the settings that pkg defines for services, by package.
func Shared(services []Service) string {
	items := map[string][]string{}
	var groups []string
	for _, service := range services {
		for _, s := range service.Settings {
			group := s.group()
			if s.IsPeer() { // all peers have the same settings, so the list has them once, for X
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

// group returns the name of the package in pkg that defines a setting.
func (s Setting) group() string {
	folder, _, _ := strings.Cut(strings.TrimPrefix(s.Of, "pkg/"), ".")
	return "`" + folder + "`"
}

// item returns a setting as an item of a Markdown list.
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

// lines is a pattern for as many words of a text as fit on one line.
var lines = regexp.MustCompile(fmt.Sprintf(`(.{1,%d})(?:\s|$)`, columns))

// wrap breaks a text into lines at its spaces, and indents all lines but the first.
func wrap(text string) string { return strings.TrimSpace(lines.ReplaceAllString(text, "$1\n  ")) }

// Write puts the lists of settings into the READMEs of services and pkg, in the checkout at root.
func Write(root string, services []Service) error {
	for _, s := range services {
		if err := section.Write(filepath.Join(root, "services", s.Name, "README.md"), "settings", List(s.Settings)); err != nil {
			return err
		}
	}
	return section.Write(filepath.Join(root, "pkg", "README.md"), "settings", Shared(services))
}
