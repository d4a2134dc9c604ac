//! The texts to which the owner agrees before agents may read user signals. A changed text is another consent, so change one
//! only with what is read.

use punie_signals::Category;

/// Returns the text of the consent to a category.
pub fn consent_text(category: Category) -> String {
    let (read, kept) = match category {
        Category::BrowsingBookmarks => (
            "the sites that you visited and how often, the titles of their pages (of chats with a model also those that you \
             opened once), topics that Chromium made of your searches, and your bookmarks, in Chromium, Chrome, Edge, Brave, \
             Arc, Opera, Vivaldi, Firefox and Safari",
            "Passwords, cookies and the content of pages are not read. Of an address only the host is told",
        ),
        Category::DevEnvironment => (
            "the names and folders of projects that you changed lately; the programs and folders in the history of your \
             shells, with how often; the development tools and settings files that are there; git's default branch and the \
             names of its aliases",
            "Whole command lines and other content of files are not told",
        ),
        Category::AppsSystem => (
            "the programs that are installed, run or were used lately, with how long; how many files of which kind lie in \
             Downloads and on the desktop; with signals.documents also the names of the folders in Documents",
            "The names and the content of files are not told",
        ),
        Category::MessagesNotes => (
            "how many messages you exchanged in the last weeks, with contacts by number instead of name; how many notes, \
             reminders and events you have, and the names of their folders, lists and calendars",
            "The text of messages, notes, reminders and events is not told",
        ),
    };
    format!(
        "Agents may read, at any time until you withdraw it: {read}. {kept}. What they read goes to the backend of this \
         device and to the model that the agent uses, and this device keeps it for 7 days. \
         Known secrets are masked, and people whose names are known are replaced by aliases. To withdraw it: punie-runner signals withdraw --category {category}"
    )
}
