package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// files returns the checkout's own files with one of the given extensions, relative to its root.
func files(t *testing.T, root string, endings ...string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", ".urr", "node_modules", "third_party", "dist"}, d.Name()):
			return filepath.SkipDir
		case !d.Type().IsRegular() || !slices.Contains(endings, filepath.Ext(path)):
			return nil
		}
		name, err := filepath.Rel(root, path)
		found = append(found, name)
		return err
	}))
	require.NotEmpty(t, found)
	return found
}

func text(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(b)
}

// targets returns the names of the Makefile's targets.
func targets(t *testing.T, root string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z -]+):`).FindAllStringSubmatch(text(t, root, "Makefile"), -1) {
		for name := range strings.FieldsSeq(m[1]) {
			names[name] = true
		}
	}
	return names
}

var (
	fencePattern   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	headingPattern = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the fragment names that GitHub generates for a document's headings.
func anchors(doc string) map[string]bool {
	names := map[string]bool{}
	for _, m := range headingPattern.FindAllStringSubmatch(fencePattern.ReplaceAllString(doc, ""), -1) {
		names[strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return names
}

var (
	commandPattern = regexp.MustCompile("(?m)(?:`|^|\\(|[A-Z_]=\\S+ )make (?:-s )?([a-z][a-z-]*)")
	linkPattern    = regexp.MustCompile(`\]\(([^):#]*)(?:#([^)]*))?\)`)
)

// TestDocumentsNameExistingFiles checks that every command, file and heading exists to which a
// document refers.
func TestDocumentsNameExistingFiles(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	makeTargets := targets(t, layout.Root)
	for _, guide := range files(t, layout.Root, ".md") {
		doc := text(t, layout.Root, guide)
		for _, m := range commandPattern.FindAllStringSubmatch(doc, -1) {
			require.True(t, makeTargets[m[1]], "%s names make %s", guide, m[1])
		}
		for _, m := range linkPattern.FindAllStringSubmatch(doc, -1) {
			target := guide
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(guide), m[1])
			}
			_, err := os.Stat(filepath.Join(layout.Root, target))
			require.NoError(t, err, "a link in %s", guide)
			if m[2] != "" {
				require.True(t, anchors(text(t, layout.Root, target))[m[2]], "%s links to #%s of %s", guide, m[2], target)
			}
		}
	}
}

var (
	namedPattern  = regexp.MustCompile(`[\w./-]*\w\.md\b`)
	publicPattern = regexp.MustCompile(`RFC \d+ $`)
)

// TestCodeCitesOnlyExistingDocuments checks that comments refer only to documents of the checkout
// and sections of RFCs, since a reader of the code has no other documents.
func TestCodeCitesOnlyExistingDocuments(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	existing := map[string]bool{}
	for _, doc := range files(t, layout.Root, ".md") {
		existing[filepath.Base(doc)] = true
	}
	for _, file := range files(t, layout.Root, ".go", ".lua", ".md", ".proto", ".sh", ".sql", ".ts", ".tsx", ".yaml") {
		for line := range strings.Lines(text(t, layout.Root, file)) {
			if strings.Contains(line, ".md") {
				for _, m := range namedPattern.FindAllString(line, -1) {
					require.True(t, existing[filepath.Base(m)], "%s cites %s", file, m)
				}
			}
			parts := strings.Split(line, "\u00a7")
			for _, before := range parts[:len(parts)-1] {
				require.Regexp(t, publicPattern, before, "%s cites a section of what is no RFC", file)
			}
		}
	}
}

// The guide of the scripts contains the name of every part of `make chaos`, and no other name.
func TestGuideNamesThePartsOfChaos(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	list, err := chaosParts(layout.Root)
	require.NoError(t, err)
	var parts, named []string
	for _, p := range list {
		parts = append(parts, p.name)
	}
	require.Subset(t, parts, []string{"InvariantsUnderFaults", "StripeWalks"})
	for _, m := range regexp.MustCompile(`P=([A-Z]\w+)`).FindAllStringSubmatch(text(t, layout.Root, "scripts", "README.md"), -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	require.ElementsMatch(t, parts, slices.Compact(named))
}
