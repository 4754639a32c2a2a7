// Package pages_test tests the pages in a real browser against a whole platform.
package pages_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// What every test shares, set once by TestPages.
var (
	browser     context.Context
	platformURL string
	// services is the platform that the tests have started; nil: they use one at URR_E2E_URL.
	services *harness.Platform
	// identityProvider is the URL of the provider at which the gateway at signInURL signs users in.
	identityProvider, signInURL string
	axe                         string
	pictures                    string
	root                        string
)

// The number of concurrent tests. maxTabs tests that use the pages keep two processors busy; tests
// that mostly wait (see parallelUnlimited) run in addition, so that the run does not wait for them
// at its end.
const (
	maxTests = 100
	maxTabs  = 8
)

var tabs = make(chan struct{}, maxTabs)

// parallelTab runs a test in parallel once a tab is free. A test that only groups subtests calls
// t.Parallel instead.
func parallelTab(t *testing.T) {
	t.Helper()
	t.Parallel()
	tabs <- struct{}{}
	t.Cleanup(func() { <-tabs })
}

// parallelUnlimited runs a test in parallel from the start, without taking a tab: it waits for a
// hold to expire or for a request to time out.
func parallelUnlimited(t *testing.T) {
	t.Helper()
	t.Parallel()
}

func TestMain(m *testing.M) {
	flag.Parse()
	// By default at most as many tests as processors run concurrently.
	if err := flag.Set("test.parallel", strconv.Itoa(maxTests)); err != nil {
		panic(err)
	}
	harness.Main(m)
}

// TestPages starts one platform and one browser for all tests; each test has its own visitors and
// events. URR_E2E_URL may be the URL of a running platform to use, such as that of `make up`.
func TestPages(t *testing.T) {
	layout, err := platform.Find()
	require.NoError(t, err)
	root = layout.Root
	pictures = layout.State("e2e")
	require.NoError(t, os.RemoveAll(pictures), "the last run's pictures")
	require.NoError(t, os.MkdirAll(pictures, 0o755))
	startPlatform(t, harness.Options{Replicas: map[string]int{platform.Gateway: 2}, OIDC: true})
	openBrowser(t)

	t.Run("Journey", testJourney)
	t.Run("Refund", testRefund)
	t.Run("MoneyByHand", testMoneyByHand)
	t.Run("PassingOn", testPassingOn)
	t.Run("GeneralAdmission", testGeneralAdmission)
	t.Run("CheckIn", testCheckIn)
	t.Run("UndoneCheckIn", testUndoneCheckIn)
	t.Run("Orders", testOrders)
	t.Run("BestSeats", testBestSeats)
	t.Run("RoomKeepsThePosition", testRoomKeepsThePosition)
	t.Run("Lobby", testLobby)
	t.Run("DrawnPlace", testDrawnPlace)
	t.Run("RoomSurvivesFailures", testRoomSurvivesFailures)
	t.Run("RoomAsksForWork", testRoomAsksForWork)
	t.Run("RoomLeadsOn", testRoomLeadsOn)
	t.Run("RoomsKeepTheLink", testRoomsKeepTheLink)
	t.Run("TabsShareOneVisitor", testTabsShareOneVisitor)
	t.Run("InactiveRoomAdmitsAll", testInactiveRoomAdmitsAll)
	t.Run("RoomIsOneFile", testRoomIsOneFile)
	t.Run("KeyboardOnly", testKeyboardOnly)
	t.Run("MouseOnTheMap", testMouseOnTheMap)
	t.Run("SeatsTakenMeanwhile", testSeatsTakenMeanwhile)
	t.Run("HoldPause", testHoldPause)
	t.Run("TooManyReturns", testTooManyReturns)
	t.Run("SeatsByStream", testSeatsByStream)
	t.Run("SlotEnds", testSlotEnds)
	t.Run("LargeHall", testLargeHall)
	t.Run("LeavingTheLine", testLeavingTheLine)
	t.Run("CancellingHolds", testCancellingHolds)
	t.Run("RefusalMessages", testRefusalMessages)
	t.Run("SwitchingTheLanguage", testSwitchingTheLanguage)
	t.Run("SigningOut", testSigningOut)
	t.Run("Presale", testPresale)
	t.Run("PresaleBesideARoom", testPresaleBesideARoom)
	t.Run("ReturnPathsStayOnSite", testReturnPathsStayOnSite)
	t.Run("ServerFailure", testServerFailure)
	t.Run("NarrowScreenAndDarkColours", testNarrowScreenAndDarkColours)
	t.Run("InvalidLinks", testInvalidLinks)
	t.Run("SaleOpens", testSaleOpens)
	t.Run("PlaceBeforeTheSale", testPlaceBeforeTheSale)
	t.Run("LineWithoutSaleStatus", testLineWithoutSaleStatus)
	t.Run("LineOpensWithTheSale", testLineOpensWithTheSale)
	t.Run("NoLineAfterTheSale", testNoLineAfterTheSale)
	t.Run("SoldOut", testSoldOut)
	t.Run("RoomShowsTheSaleStatus", testRoomShowsTheSaleStatus)
	t.Run("LineShowsTheSaleStatus", testLineShowsTheSaleStatus)
	t.Run("RoomIgnoresStaleEnds", testRoomIgnoresStaleEnds)
	t.Run("LineIgnoresStaleEnds", testLineIgnoresStaleEnds)
	t.Run("LineEndsWithTheSale", testLineEndsWithTheSale)
	t.Run("PausedSale", testPausedSale)
	t.Run("OperatorsActs", testOperatorsActs)
	t.Run("CancelledSale", testCancelledSale)
	t.Run("PostponedSale", testPostponedSale)
	t.Run("TimesShowTheirZone", testTimesShowTheirZone)
	t.Run("TimeZoneName", testTimeZoneName)
	t.Run("UnknownEvent", testUnknownEvent)
	t.Run("SignInReason", testSignInReason)
	t.Run("SignInAtTheProvider", testSignInAtTheProvider)
	t.Run("NaturalOrder", testNaturalOrder)
	t.Run("WrongClock", testWrongClock)
	t.Run("HoldExpires", testHoldExpires)
	t.Run("EveryProviderOutcome", testEveryProviderOutcome)
	t.Run("ImmediateRetry", testImmediateRetry)
	t.Run("ReloadDuringPayment", testReloadDuringPayment)
	t.Run("TurnToPay", testTurnToPay)
	t.Run("LostHoldResponse", testLostHoldResponse)
	t.Run("BackToTheSeats", testBackToTheSeats)
	t.Run("ChoiceSurvivesAReload", testChoiceSurvivesAReload)
	t.Run("SessionEnds", testSessionEnds)
	t.Run("OtherUsersReservation", testOtherUsersReservation)
	t.Run("UnresponsiveServer", testUnresponsiveServer)
	t.Run("BackFromSignIn", testBackFromSignIn)
	t.Run("SignOutFails", testSignOutFails)
	t.Run("LineSurvivesFailures", testLineSurvivesFailures)
	t.Run("PaidElsewhere", testPaidElsewhere)
	t.Run("Attendance", testAttendance)
	t.Run("AttendanceByKeys", testAttendanceByKeys)
	t.Run("Draws", testDraws)
	t.Run("LastPrizeGone", testLastPrizeGone)
	t.Run("LostDraw", testLostDraw)
	t.Run("Payouts", testPayouts)
	t.Run("SessionEndsInACampaign", testSessionEndsInACampaign)
	t.Run("CampaignStates", testCampaignStates)
	t.Run("CampaignOpens", testCampaignOpens)
	t.Run("CampaignUnavailable", testCampaignUnavailable)
	t.Run("FirstCome", testFirstCome)
	t.Run("PromotionStates", testPromotionStates)
	t.Run("PromotionTrouble", testPromotionTrouble)
	t.Run("Lottery", testLottery)
	t.Run("LotteryResults", testLotteryResults)
	t.Run("VerifiableDraws", testVerifiableDraws)
	t.Run("SuspiciousDraws", testSuspiciousDraws)
}

// TestProviderPages tests the payment pages of the sandbox and of fake providers. A test at a fake
// has only one language and device, alternately.
func TestProviderPages(t *testing.T) {
	layout, err := platform.Find()
	require.NoError(t, err)
	root, pictures = layout.Root, layout.State("e2e")
	require.NoError(t, os.MkdirAll(pictures, 0o755))
	startPlatform(t, harness.Options{
		Replicas: map[string]int{platform.Gateway: 1}, ProviderPage: true, Providers: []string{platform.Sandbox, platform.Stripe, platform.Toss},
	})
	if services == nil {
		t.Skip("whether the running platform's provider has a page is not known")
	}
	openBrowser(t)

	walks := []struct {
		name string
		test func(t *testing.T, at payPage)
	}{
		{"DeclinedThenPaid", testDeclinedThenPaid},
		{"BackAndReload", testBackAndReload},
		{"SecondTab", testSecondTab},
		{"ChangeOfMind", testChangeOfMind},
		{"NeverBack", testNeverBack},
		{"BackElsewhere", testBackElsewhere},
		{"PlacesGivenUp", testPlacesGivenUp},
		{"PassedOnByPage", testPassedOnByPage},
		{"MembershipByPage", testMembershipByPage},
	}
	t.Run("Disputed", testDisputed)
	for n, at := range payPages() {
		at.variants = variants
		t.Run(at.provider, func(t *testing.T) {
			t.Parallel()
			for i, w := range walks {
				if n > 0 && i >= 5 {
					break // they test the shop's pages, not the provider's
				}
				if n > 0 {
					at.variants = variants[(i+n)%2:][:1]
				}
				t.Run(w.name, func(t *testing.T) { w.test(t, at) })
			}
		})
	}
}

// openBrowser starts the browser, and reads axe-core, which checks the pages.
func openBrowser(t *testing.T) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(root, "services/gateway/web/node_modules/axe-core/axe.min.js"))
	require.NoError(t, err, "axe-core comes with the pages' packages: go run ./scripts/cmd/web")
	axe = string(script)
	startBrowser(t)
}

// startPlatform bundles the pages, which are embedded into the gateway, and starts all services.
func startPlatform(t *testing.T, options harness.Options) {
	t.Helper()
	if platformURL = os.Getenv("URR_E2E_URL"); platformURL != "" {
		signInURL = platformURL
		return
	}
	bundle := exec.CommandContext(t.Context(), "go", "run", "./scripts/cmd/web")
	bundle.Dir = root
	out, err := bundle.CombinedOutput()
	require.NoError(t, err, "bundle the pages:\n%s", out)
	services = harness.Start(t, options)
	platformURL, signInURL = "http://"+services.Service(platform.Gateway).Addr(0), "http://"+services.Service(platform.Gateway).Addr(options.Replicas[platform.Gateway]-1)
	identityProvider = "http://" + services.Service(platform.Sandbox).Addr(0) + "/oidc/"
}

// startBrowser starts the browser that all tests share. Each visitor gets a separate browser
// context.
func startBrowser(t *testing.T) {
	t.Helper()
	// The headless shell uses less processor time than the whole browser.
	program, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		program, err = exec.LookPath("chromium")
	}
	require.NoError(t, err, "apt-get install chromium-headless-shell fonts-noto-cjk")
	// The last processes of a stopped browser may still write to its folder.
	scratch, err := os.MkdirTemp("", "urr-pages-") //nolint:usetesting // t.TempDir fails the test when it cannot remove all at once
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(scratch) })
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.Env("TMPDIR="+scratch), chromedp.NoSandbox, chromedp.DisableGPU,
		// Without a GPU, a process of its own for drawing only costs processor time.
		chromedp.Flag("in-process-gpu", true),
		// One process per tab, and none in advance: starting processes is most of the cost of a
		// tab.
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,SpareRendererForSitePerProcess,PaintHolding"),
		chromedp.Flag("disable-site-isolation-trials", true),
		// Compiling optimised code costs more than it saves: a page of a test is closed too soon.
		chromedp.Flag("js-flags", "--no-opt --no-maglev"),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		// Only the platform is reachable, with both of its gateways and the host of payments.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE localhost, EXCLUDE 127.0.0.1, EXCLUDE 127.0.0.2"),
	)
	// Not the test's context: it ends before the clean-ups, in which visitors close their tabs.
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stopAllocator)
	ctx, stopBrowser := chromedp.NewContext(allocator)
	t.Cleanup(stopBrowser)
	require.NoError(t, chromedp.Do(ctx), "start chromium")
	browser = ctx //nolint:fatcontext // set once, before the tests
}
