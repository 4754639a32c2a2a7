package pages_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// keepPictures makes checkPage keep a picture of each checked page for review. No test depends on
// the pictures, and taking them uses an eighth of the tests' processor time.
var keepPictures = flag.Bool("pictures", false, "keep a picture of every page that is checked, in .urr/e2e")

// checkPage checks the current state of a page: its language, that nothing is wider than the
// screen of a phone or of a desktop, and its accessibility.
func (b *tab) checkPage(name string) {
	b.t.Helper()
	if *keepPictures {
		ctx, cancel := b.bounded()
		defer cancel()
		b.screenshot(ctx, name)
	}
	b.checkLayout()
	b.checkOtherWidth()
	b.checkAccessibility(name)
}

func (b *tab) checkLayout() {
	b.t.Helper()
	type layout struct {
		Lang, Path      string
		Width, Overflow int
	}
	found := eval[layout](b, `({lang: document.documentElement.lang, path: location.pathname, width: innerWidth,
		overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth})`)
	require.Equal(b.t, b.lang, found.Lang, "language of %s", found.Path)
	require.LessOrEqual(b.t, found.Overflow, 0, "pixels by which %s is wider than a screen of %d", found.Path, found.Width)
}

// checkOtherWidth checks the layout at the width of the other device too. Separate tests for each
// language and width would take twice as long.
func (b *tab) checkOtherWidth() {
	b.t.Helper()
	other := phone
	if b.device.width == phone.width {
		other = desktop
	}
	b.emulate(b.device, other.width)
	b.checkLayout()
	b.emulate(b.device, b.device.width)
}

type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// checkAccessibility runs axe-core with all rules of WCAG 2.2 AA and the best practices. axe-core
// does not preload style sheets and media: only a rule about media, which the pages do not have,
// and an experimental one, which does not run, need them.
func (b *tab) checkAccessibility(name string) {
	b.t.Helper()
	if !eval[bool](b, "typeof axe === 'object'") { // axe-core stays loaded until the page is left
		b.do(chromedp.Evaluate[chromedp.Void](axe + "\n;1"))
	}
	raw := eval[string](b, `axe.run(document, {preload: false, resultTypes: ["violations"], runOnly:
		["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => JSON.stringify(r.violations))`)
	var found []violation
	require.NoError(b.t, json.Unmarshal([]byte(raw), &found))
	for _, v := range found {
		for _, n := range v.Nodes {
			b.t.Errorf("%s: %s (%s)\n%s\n%s", name, v.Help, v.ID, n.HTML, n.Summary)
		}
	}
}

// screenshot saves a picture of the whole page under .urr/e2e.
func (b *tab) screenshot(ctx context.Context, name string) {
	b.t.Helper()
	wholePage, quick, quality := true, true, int64(80)
	picture, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: page.CaptureScreenshotFormatJpeg, Quality: &quality, OptimizeForSpeed: &quick, CaptureBeyondViewport: &wholePage,
	})
	if err != nil {
		b.t.Logf("no picture of %s: %v", name, err)
		return
	}
	b.screenshots++
	test := strings.NewReplacer("/", "-", " ", "_").Replace(b.t.Name())
	file := filepath.Join(pictures, fmt.Sprintf("%s-%02d-%s.jpg", test, b.screenshots, name))
	require.NoError(b.t, os.WriteFile(file, picture.Data, 0o644))
}
